import java.util.ArrayList;
import java.util.concurrent.*;

/** Rounds of a pool whose tasks allocate, and of a queue between threads. Argument: rounds. */
class Threads {
    public static void main(String[] arguments) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(32);
        for (int round = 0; round < Integer.parseInt(arguments[0]); round++) {
            allocate(pool);
            pass(pool);
        }
        pool.shutdown();
        check(pool.awaitTermination(10, TimeUnit.SECONDS));
    }

    static void allocate(ExecutorService pool) throws Exception {
        var futures = new ArrayList<Future<Integer>>();
        for (int task = 0; task < 200; task++) {
            futures.add(pool.submit(() -> {
                var kept = new ArrayList<byte[]>();
                for (int i = 0; i < 2000; i++) kept.add(new byte[100]);
                return kept.size();
            }));
        }
        for (var future : futures) check(future.get() == 2000);
    }

    static void pass(ExecutorService pool) throws Exception {
        BlockingQueue<Integer> queue = new ArrayBlockingQueue<>(4);
        Future<?> producer = pool.submit(() -> {
            for (int i = 0; i < 20000; i++) queue.put(i);
            return 0;
        });
        for (int i = 0; i < 20000; i++) check(queue.take() == i);
        producer.get();
    }

    static void check(boolean holds) {
        if (!holds) System.exit(1);
    }
}

// A ring of goroutines, each with a channel.
//
// Arguments: threads laps workers limit_ns [first]; each thread's successor on standard input.
// Prints "elapsed_ns laps". A wrong datum gives status 3 and "expected found". `first` is the first
// value sent, 2 unless a test wants a wrong datum.
package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"time"
)

const start = 1

// warmUp is the number of laps that are not measured.
const warmUp = 2

// lapClock reads the clock at lap marks about a millisecond apart.
type lapClock struct {
	started      time.Time
	limit        time.Duration
	elapsed      time.Duration
	laps         uint64
	stride, next uint64
}

func (c *lapClock) mark(lap uint64) {
	elapsed := time.Since(c.started)
	if elapsed-c.elapsed < time.Millisecond {
		c.stride *= 2
	}
	c.elapsed = elapsed
	if lap == c.laps || elapsed > c.limit {
		fmt.Println(elapsed.Nanoseconds(), lap)
		os.Exit(0)
	}
	c.next = min(lap+c.stride, c.laps)
}

func check(found, expected uint64) {
	if found != expected {
		fmt.Println(expected, found)
		os.Exit(3)
	}
}

func lead(in <-chan uint64, out chan<- uint64, laps, first uint64, limit time.Duration) {
	clock := lapClock{limit: limit, laps: laps, stride: 1, next: 1}
	check(<-in, start)
	out <- first
	check(<-in, start+1)
	for datum := uint64(start + 2); datum <= start+warmUp; datum++ {
		out <- datum
		check(<-in, datum)
	}
	clock.started = time.Now()
	for lap, datum := uint64(1), uint64(start+warmUp+1); ; lap, datum = lap+1, datum+1 {
		out <- datum
		check(<-in, datum)
		if lap == clock.next {
			clock.mark(lap)
		}
	}
}

func follow(in <-chan uint64, out chan<- uint64) {
	for expected := uint64(start + 1); ; expected++ {
		found := <-in
		check(found, expected)
		out <- found
	}
}

func argument(index int) uint64 {
	value, err := strconv.ParseUint(os.Args[index], 10, 64)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	return value
}

func main() {
	threads, laps, limit := argument(1), argument(2), time.Duration(argument(4))
	runtime.GOMAXPROCS(int(argument(3)))
	first := uint64(start + 1)
	if len(os.Args) > 5 {
		first = argument(5)
	}

	channels := make([]chan uint64, threads)
	for i := range channels {
		channels[i] = make(chan uint64, 1)
	}
	var arrived sync.WaitGroup
	arrived.Add(int(threads))
	input := bufio.NewReader(os.Stdin)
	for i := range channels {
		var next int
		if _, err := fmt.Fscan(input, &next); err != nil {
			fmt.Fprintln(os.Stderr, "successors:", err)
			os.Exit(2)
		}
		in, out := channels[i], channels[next]
		go func() {
			arrived.Done()
			if i == 0 {
				lead(in, out, laps, first, limit)
			} else {
				follow(in, out)
			}
		}()
	}
	arrived.Wait()
	channels[0] <- start
	select {}
}

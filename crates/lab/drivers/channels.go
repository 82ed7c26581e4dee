// Messages between goroutines.
//
// Arguments: capacity ends workers each. So many producers send the numbers up to each, to as many
// consumers. Prints "elapsed_ns sum".
package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"time"
)

func argument(index int) uint64 {
	value, err := strconv.ParseUint(os.Args[index], 10, 64)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	return value
}

func main() {
	capacity, ends, each := argument(1), argument(2), argument(4)
	runtime.GOMAXPROCS(int(argument(3)))
	started := time.Now()
	messages, sums := make(chan uint64, capacity), make(chan uint64, ends)
	for range ends {
		go func() {
			sum := uint64(0)
			for message := range messages {
				sum += message
			}
			sums <- sum
		}()
	}
	var producers sync.WaitGroup
	for range ends {
		producers.Add(1)
		go func() {
			defer producers.Done()
			for number := uint64(1); number <= each; number++ {
				messages <- number
			}
		}()
	}
	producers.Wait()
	close(messages)
	total := uint64(0)
	for range ends {
		total += <-sums
	}
	fmt.Println(time.Since(started).Nanoseconds(), total)
}

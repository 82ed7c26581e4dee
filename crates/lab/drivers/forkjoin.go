// Work that forks and joins by goroutines.
//
// Arguments: fib|tree|sort size leaf workers rounds limit_ns. Prints "elapsed_ns rounds peak_kib
// result": the time of the rounds after the first, and the growth of the resident memory at its
// most.
package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

func plainFib(n uint64) uint64 {
	if n < 2 {
		return n
	}
	return plainFib(n-1) + plainFib(n-2)
}

func fib(n, leaf uint64) uint64 {
	if n < max(leaf, 2) {
		return plainFib(n)
	}
	one := make(chan uint64, 1)
	go func() { one <- fib(n-1, leaf) }()
	other := fib(n-2, leaf)
	return <-one + other
}

// The children of node n are 2n+1 and 2n+2.
func tree(values []uint64, node int) uint64 {
	if node >= len(values) {
		return 0
	}
	if 2*node+1 >= len(values) {
		return values[node]
	}
	one := make(chan uint64, 1)
	go func() { one <- tree(values, 2*node+1) }()
	other := tree(values, 2*node+2)
	return values[node] + <-one + other
}

func sort(numbers []uint64, leaf int) []uint64 {
	if len(numbers) <= leaf {
		slices.Sort(numbers)
		return numbers
	}
	middle := len(numbers) / 2
	one := make(chan []uint64, 1)
	go func() { one <- sort(numbers[:middle], leaf) }()
	high := sort(numbers[middle:], leaf)
	low := <-one
	merged := make([]uint64, 0, len(numbers))
	for len(low) > 0 && len(high) > 0 {
		if low[0] <= high[0] {
			merged, low = append(merged, low[0]), low[1:]
		} else {
			merged, high = append(merged, high[0]), high[1:]
		}
	}
	return append(append(merged, low...), high...)
}

// random continues the sequence of SplitMix64, as the other methods do.
func random(state *uint64) uint64 {
	*state += 0x9E3779B97F4A7C15
	z := *state
	z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9
	z = (z ^ (z >> 27)) * 0x94D049BB133111EB
	return z ^ (z >> 31)
}

func numbers(count uint64) []uint64 {
	state := uint64(1)
	made := make([]uint64, count)
	for i := range made {
		made[i] = random(&state)
	}
	return made
}

// status returns a field of this process's status in KiB.
func status(field string) uint64 {
	file, err := os.Open("/proc/self/status")
	if err != nil {
		return 0
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if rest, found := strings.CutPrefix(lines.Text(), field+":"); found {
			value, _ := strconv.ParseUint(strings.Fields(rest)[0], 10, 64)
			return value
		}
	}
	return 0
}

func argument(index int) uint64 {
	value, err := strconv.ParseUint(os.Args[index], 10, 64)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	return value
}

func sum(values []uint64) uint64 {
	total := uint64(0)
	for _, value := range values {
		total += value
	}
	return total
}

func main() {
	size, leaf, rounds := argument(2), argument(3), argument(5)
	limit := time.Duration(argument(6))
	runtime.GOMAXPROCS(int(argument(4)))
	var input []uint64
	if os.Args[1] != "fib" {
		input = numbers(size)
	}
	work := func() uint64 {
		switch os.Args[1] {
		case "fib":
			return fib(size, leaf)
		case "tree":
			return tree(input, 0)
		}
		sorted := sort(slices.Clone(input), int(leaf))
		if !slices.IsSorted(sorted) {
			return ^sum(sorted)
		}
		return sum(sorted)
	}
	_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0)
	before := status("VmRSS")
	result := work()
	started, done := time.Now(), uint64(0)
	var elapsed time.Duration
	for done < rounds && (done == 0 || elapsed < limit) {
		if work() != result {
			fmt.Fprintln(os.Stderr, "the result changes")
			os.Exit(3)
		}
		done, elapsed = done+1, time.Since(started)
	}
	peak := status("VmHWM")
	fmt.Println(elapsed.Nanoseconds(), done, peak-min(peak, before), result)
}

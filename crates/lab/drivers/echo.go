// An echo server with a goroutine for each connection.
//
// Arguments: address workers. It serves until it is killed.
package main

import (
	"fmt"
	"net"
	"os"
	"runtime"
	"strconv"
)

// buffer holds as many bytes as a client sends together.
const buffer = 16 * 64

func echo(connection net.Conn) {
	defer connection.Close()
	bytes := make([]byte, buffer)
	for {
		read, err := connection.Read(bytes)
		if err != nil {
			return
		}
		if _, err := connection.Write(bytes[:read]); err != nil {
			return
		}
	}
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func main() {
	workers, err := strconv.Atoi(os.Args[2])
	fail(err)
	runtime.GOMAXPROCS(workers)
	listener, err := net.Listen("tcp", os.Args[1])
	fail(err)
	for {
		connection, err := listener.Accept()
		fail(err)
		go echo(connection)
	}
}

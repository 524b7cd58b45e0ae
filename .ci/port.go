//go:build ignore

// Prints a free TCP port of the loopback interface.
package main

import (
	"fmt"
	"log"
	"net"
)

func main() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	fmt.Println(l.Addr().(*net.TCPAddr).Port)
}

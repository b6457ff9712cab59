// Full TLS 1.3 handshakes with one key exchange group, each followed by one request.
//
//	handshakes ADDRESS GROUP CLIENTS SECONDS
//
// Prints the number of handshakes. Debian 12's OpenSSL does not know the hybrid group.
package main

import (
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

const request = "GET / HTTP/1.1\r\nHost: app.localhost\r\nConnection: close\r\n\r\n"

func main() {
	groups := map[string]tls.CurveID{"X25519": tls.X25519, "X25519MLKEM768": tls.X25519MLKEM768}
	group, known := groups[os.Args[2]]
	clients, err := strconv.Atoi(os.Args[3])
	seconds, fault := strconv.Atoi(os.Args[4])
	if !known || err != nil || fault != nil {
		log.Fatal("usage: handshakes ADDRESS X25519|X25519MLKEM768 CLIENTS SECONDS")
	}
	// Without a session cache, no session is resumed.
	config := &tls.Config{InsecureSkipVerify: true, ServerName: "app.localhost", CurvePreferences: []tls.CurveID{group}}
	end := time.Now().Add(time.Duration(seconds) * time.Second)
	var count atomic.Int64
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			for time.Now().Before(end) {
				if err := visit(os.Args[1], config, group); err != nil {
					log.Fatal(err)
				}
				count.Add(1)
			}
		})
	}
	all.Wait()
	fmt.Println(count.Load())
}

func visit(address string, config *tls.Config, group tls.CurveID) error {
	client, err := tls.Dial("tcp", address, config)
	if err != nil {
		return err
	}
	defer client.Close()
	if state := client.ConnectionState(); state.CurveID != group || state.DidResume {
		return fmt.Errorf("the server chose %v, resumed: %v", state.CurveID, state.DidResume)
	}
	if _, err := io.WriteString(client, request); err != nil {
		return err
	}
	answer, err := io.ReadAll(client)
	if err == nil && len(answer) < 1024 {
		err = fmt.Errorf("%d bytes: %.200s", len(answer), answer)
	}
	return err
}

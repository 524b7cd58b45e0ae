// Command cmd runs liars for the tests of clients in other languages. It reads orders from
// standard input, a JSON object a line, and answers each with a line:
//
//	{"rules": [{"method": "ENQUEUE", "do": "cut"}]}   {"addr": "127.0.0.1:40001"}
//	{"seen": "127.0.0.1:40001"}                   {"seen": {"HELLO": 2, "ENQUEUE": 2}}
//	{"close": "127.0.0.1:40001"}                  {}
//
// What it cannot do is answered with {"error": "…"}. It ends with its standard input.
package main

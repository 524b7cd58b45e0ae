// Command worker is a worker as it runs in production: several queues with
// shares, time-outs, checkpoints, steering errors, middleware, a log, and a stop
// that lets finish what runs.
//
//	go run ./examples/worker 127.0.0.1:7711
//	norn task enqueue -q thumbnails '{"image": "cat.png", "sizes": [64, 128]}'
//	norn task enqueue -q mail '{"to": "ada@example.org"}'
//
// norn-work.service beside it runs the same kind of worker under systemd, with a
// command instead of a program.
package main

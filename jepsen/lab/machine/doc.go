// Package machine is what the laboratory asks of the machine under it: programs of
// the system, namespaces, mounts, and the end of what a killed run has left behind.
//
//   - What a machine does not allow is a [NotRun] with the reason ([Privileged],
//     [Namespaces]), never a failure of the program under test.
//   - Names of namespaces, links, mounts and directories carry the ID of the process
//     that made them. [Sweep] removes those whose process has ended, and no others.
package machine

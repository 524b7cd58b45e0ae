// Package house holds the layout and style rules of this repository as
// functions over its source, and tests that apply them.
//
// The rules are the ones of CONTRIBUTING.md; the import table is [Rows]. Every
// rule is a function from a [Tree] to [Problem]s, so that its own tests can
// hand it a few lines of source and see it fail: a rule that has never failed
// is no evidence. A problem says where, which rule, why there is such a rule,
// and what to do.
//
// Contract: a rule reads the tree and nothing else, and gives its problems in
// the order of the files. Generated files (`*.pb.go`) are exempt from all of
// them. Deliberate exceptions are listed in [Exceptions], each with its reason;
// one that excuses nothing is itself a problem.
package house

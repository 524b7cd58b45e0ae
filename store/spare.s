// Empty: a function without a body (spare.go) needs a file of this kind beside it.

// Package access is the command norn access: roles, tokens, and who did what.
package access

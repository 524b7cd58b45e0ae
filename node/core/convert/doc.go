// Package convert turns what clients write into facts, and facts into what clients see.
//
// Guarantees:
//
//  1. A request is checked before anything of it is converted: what is over a limit of
//     package proto, or cannot be meant, is refused as a whole.
//  2. Fields that this build does not know are kept with the fact, in their canonical form
//     ([Unknown]), and given back to who reads it: a newer worker finds them though only
//     older servers were between.
//  3. A conversion depends on its arguments alone, so that all replicas make the same fact
//     of the same request.
package convert

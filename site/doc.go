// Command site makes the content of the site from docs, for Eleventy, and checks what
// Eleventy has made of it.
//
// Contract. `site -to DIR` writes each page below docs with links as they are on the site, the
// menu and what the search looks through; what a page links to outside of docs leads to the repository.
// `site -check DIR` fails when a link, an anchor or a file of the finished site leads
// nowhere, or when one begins with / and so would not work from a file.
package main

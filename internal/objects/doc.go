// Package objects keeps whole objects under names, in a directory or in an
// S3-compatible store: snapshots of the register and archives of finished tasks
// leave the machine through it.
//
// Contract.
//
//   - What [Store.Put] or [Store.Create] has acknowledged is durable: synced in a
//     directory, answered by the store in S3. After an error it may be there or
//     not, but never half of it under its name.
//   - Create never replaces anything: of several who create one name one wins, also
//     from different machines. In a directory that needs a file system on which
//     O_EXCL works (every local one, NFS from version 3); in S3 conditional writes,
//     without which it looks first.
//   - A name is 1 to 250 of A-Z a-z 0-9 . _ - % ~, and does not begin with a dot: the same
//     in both, and never a path.
//   - Objects are held in memory whole, at most MaxObject bytes.
//
// Credentials of S3 come from where the AWS tools look: AWS_ACCESS_KEY_ID and
// AWS_SECRET_ACCESS_KEY (or MINIO_…), ~/.aws/credentials, the role of the
// machine or pod. They are never part of an address.
package objects

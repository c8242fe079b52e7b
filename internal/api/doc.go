// Package api answers the requests of the Kafka protocol, one file per key.
// Handlers are plain blocking Go: they read the metadata image and the
// partitions, and take no lock of their own. table.go is the whole list; what
// ApiVersions advertises is a walk over it.
//
// Layout is kmsg's business. A handler looks at a request's version only where
// the meaning changes, and the comment at the head of its file lists those
// places. Errors of lower floors are translated by wire.Code alone.
//
// What is answered before there is an image is early.go's.
//
// Every handler asks acl.Authorizer before it reads or changes anything.
package api

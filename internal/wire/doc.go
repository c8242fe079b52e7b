// Package wire is the Kafka protocol as bytes: frames, request and response
// headers, size limits, the layouts of kmsg, and errors turned to codes.
//
//	frame     = length int32, then length bytes
//	request   = key int16, version int16, correlation int32,
//	            client id nullable string (header v1 and v2), tags (v2), body
//	response  = correlation int32, tags (v1), body
//
// Header v2 and response header v1 belong to the flexible versions of a key
// (KIP-482). Two exceptions: ControlledShutdown v0 has request header v0, and
// ApiVersions is always answered with response header v0, because its reader
// does not know yet which versions the writer speaks (KIP-511).
//
// Every parser here takes bytes from strangers: none panics, and none allocates
// more than a bounded multiple of what it was given (see Cost). Byte fields of
// a parsed request alias the frame; strings are copies.
//
// Functions keep no state and may be called from any goroutine. A Client may be
// shared too. A Buffer has one owner at a time.
package wire

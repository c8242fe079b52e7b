// Package server is the door: listeners, connections, requests in and answers
// out, in order. It knows frames and versions, and nothing of topics.
//
// # A connection
//
//	socket -> reader -> pending -> turn -> handler -> slot -> writer -> socket
//
// Reader: the goroutine that read a frame handles it and then reads on, so a
// request that never waits costs no switch of goroutines, and an idle connection is
// one small stack without a buffer. When a handler waits (it asks for its context's
// Done) or hands the turn on, another goroutine reads: one frame ahead at most, and
// it sees a hang-up otherwise.
//
// Turn: one request of a connection runs at a time, until its handler returns or
// calls Request.Next.
//
// Sleep: a request that may wait for long returns from its handler, keeps its turn,
// and is looked at again when it is woken (Request.Sleep). It holds no goroutine.
//
// Slots: calls in the order of their arrival. The goroutine that completes the
// oldest writes it and every finished one behind it, in one call. When all slots
// are taken the turn stays where it is.
//
// A frame lives in a pooled buffer, on a budget of bytes, until Next or the
// handler's return. A peer that hangs up ends the connection's context; what it
// had sent before is still handled, in order (an acks=0 producer sends and leaves).
//
// # Promises
//
// Nothing that a peer sends or leaves unsent ends the process or grows memory beyond
// the budget: sizes are checked before memory is taken, a handler's panic closes
// its own connection, a peer that takes no bytes for Config.SlowReader or stalls
// within a frame that long is closed.
//
// Server's methods may be called from any goroutine; a Request belongs to its
// handler, and of its methods only those of one goroutine at a time.
package server

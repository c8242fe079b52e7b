// Package group is the group coordinator as a pure machine: classic groups,
// consumer groups of KIP-848, and groups that only commit offsets, with the change of a
// live group between the two protocols.
package group

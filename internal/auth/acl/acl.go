// Package acl decides who may do what: a pure function of a principal, an
// operation, a resource and the cluster's image. Every handler asks it before
// it acts. An Authorizer may be used by any number of goroutines.
package acl

import "github.com/barnabas-mq/barnabas/internal/meta"

// Operation is the AclOperation of the protocol (KIP-140).
type Operation int8

// The operations. Unknown and Any never stand in a rule.
const (
	UnknownOperation Operation = iota
	AnyOperation
	All
	Read
	Write
	Create
	Delete
	Alter
	Describe
	ClusterAction
	DescribeConfigs
	AlterConfigs
	IdempotentWrite
	CreateTokens
	DescribeTokens
	TwoPhaseCommit // KIP-939
)

var operationNames = [...]string{"UNKNOWN", "ANY", "ALL", "READ", "WRITE", "CREATE", "DELETE", "ALTER", "DESCRIBE", "CLUSTER_ACTION",
	"DESCRIBE_CONFIGS", "ALTER_CONFIGS", "IDEMPOTENT_WRITE", "CREATE_TOKENS", "DESCRIBE_TOKENS", "TWO_PHASE_COMMIT"}

func (o Operation) String() string {
	if o < 0 || int(o) >= len(operationNames) {
		return operationNames[0]
	}
	return operationNames[o]
}

// Resource is the ResourceType of the protocol.
type Resource int8

// The resources. There is one Cluster resource; its name is ClusterName.
const (
	UnknownResource Resource = iota
	AnyResource
	Topic
	Group
	Cluster
	TransactionalID
	DelegationToken
	User
)

// ClusterName is the name under which the protocol knows the one cluster.
const ClusterName = "kafka-cluster"

var resourceNames = [...]string{"UNKNOWN", "ANY", "TOPIC", "GROUP", "CLUSTER", "TRANSACTIONAL_ID", "DELEGATION_TOKEN", "USER"}

func (r Resource) String() string {
	if r < 0 || int(r) >= len(resourceNames) {
		return resourceNames[0]
	}
	return resourceNames[r]
}

// operations that the protocol defines for each resource, in the order of their codes.
var operations = map[Resource][]Operation{
	Topic:           {Read, Write, Create, Delete, Alter, Describe, DescribeConfigs, AlterConfigs},
	Group:           {Read, Delete, Describe, DescribeConfigs, AlterConfigs},
	Cluster:         {Create, Alter, Describe, ClusterAction, DescribeConfigs, AlterConfigs, IdempotentWrite},
	TransactionalID: {Write, Describe, TwoPhaseCommit},
	DelegationToken: {Describe},
	User:            {CreateTokens, DescribeTokens},
}

// Authorizer answers from one image. The zero Authorizer, of a cluster whose
// image is not known yet, has no rules.
type Authorizer struct {
	image *meta.Image
}

// For makes the Authorizer of an image, which may be nil before the first one.
func For(image *meta.Image) Authorizer { return Authorizer{image} }

// Allow tells whether principal ("User:alice") may do op to the resource of
// that name. Where no rules exist, which is so as long as the image cannot
// carry any, everything is allowed, as it is in Apache Kafka without an
// authorizer. An operation that the resource does not have is never allowed.
func (a Authorizer) Allow(principal string, op Operation, res Resource, name string) bool {
	for _, known := range operations[res] {
		if op == known {
			return true
		}
	}
	return false
}

// Authorized is the bit field of the operations that principal may do to a
// resource (KIP-430), as Metadata and the Describe requests answer it.
func (a Authorizer) Authorized(principal string, res Resource, name string) int32 {
	var bits int32
	for _, op := range operations[res] {
		if a.Allow(principal, op, res, name) {
			bits |= 1 << op
		}
	}
	return bits
}

package plan

import (
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/barnabas-mq/barnabas/internal/meta"
)

// MaxNameLen is the longest name of a topic, in bytes: with a partition's
// number behind it, it still is a file name.
const MaxNameLen = 249

// CheckName refuses names that no topic can have: INVALID_TOPIC_EXCEPTION.
func CheckName(name string) error {
	why := ""
	switch {
	case name == "":
		why = "the empty string is not allowed"
	case name == "." || name == "..":
		why = "'" + name + "' is not allowed"
	case len(name) > MaxNameLen:
		return refuse(kerr.InvalidTopicException,
			"Topic name is invalid: the length of '%s' is longer than the max allowed length %d", name, MaxNameLen)
	case !legal(name):
		return refuse(kerr.InvalidTopicException,
			"Topic name is invalid: '%s' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'", name)
	default:
		return nil
	}
	return refuse(kerr.InvalidTopicException, "Topic name is invalid: %s", why)
}

func legal(name string) bool {
	for n := range len(name) {
		c := name[n]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '.', c == '_', c == '-':
		default:
			return false
		}
	}
	return true
}

// CheckFree refuses a name that is taken, or that Apache Kafka's metrics could
// not tell from one that is.
func CheckFree(img *meta.Image, name string) error {
	if _, taken := img.Topic(name); taken {
		return alreadyExists(name)
	}
	if other, ok := img.Colliding(name); ok {
		return collides(name, other)
	}
	return nil
}

func alreadyExists(name string) error {
	return refuse(kerr.TopicAlreadyExists, "Topic '%s' already exists.", name)
}

func collides(name, other string) error {
	return refuse(kerr.InvalidTopicException, "Topic '%s' collides with existing topic: %s", name, other)
}

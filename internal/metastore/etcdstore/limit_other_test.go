//go:build !unix

package etcdstore

import "errors"

func limitFiles() error { return errors.ErrUnsupported }

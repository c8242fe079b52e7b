package etcdstore

import (
	"crypto/tls"
	"errors"
	"fmt"

	"go.etcd.io/etcd/client/pkg/v3/transport"
)

// Files of a mutual TLS, all in PEM. They are read at each handshake, so that a
// renewed certificate needs no restart.
type Files struct {
	Certificate, Key string // of this node, as server and as client
	CA               string // whoever shows a certificate of it is one of us
}

func (f Files) empty() bool { return f == Files{} }

func (f Files) check() error {
	if f.empty() {
		return nil
	}
	if f.Certificate == "" || f.Key == "" || f.CA == "" {
		return errors.New("metadata store: certificate, key and CA go together: set all three files, or none")
	}
	return nil
}

// info for etcd. A client is known by its certificate alone, not by the address
// that it comes from, which the network may have changed.
func (f Files) info() transport.TLSInfo {
	return transport.TLSInfo{
		CertFile:            f.Certificate,
		KeyFile:             f.Key,
		TrustedCAFile:       f.CA,
		ClientCertAuth:      true,
		SkipClientSANVerify: true,
	}
}

// client is the configuration of the calling side; nil without files.
func (f Files) client() (*tls.Config, error) {
	if f.empty() {
		return nil, nil
	}
	cfg, err := f.info().ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("metadata store: TLS: %w", err)
	}
	return cfg, nil
}

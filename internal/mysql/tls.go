package mysql

import (
	"context"
	"crypto/tls"
	"errors"
	"net"

	"github.com/go-sql-driver/mysql"
)

// encrypt makes every new connection a TLS connection, with what tlsFor gives at that moment. The driver would keep the
// configuration of the start. A server that does not speak TLS is refused, and so is a DSN by which the driver would do without it.
func encrypt(cfg *mysql.Config, tlsFor func(serverName string) *tls.Config) error {
	if cfg.TLSConfig != "" {
		return errors.New("mysql: the DSN sets tls, and so do certificate files; leave one of them out")
	}
	if cfg.AllowFallbackToPlaintext {
		return errors.New("mysql: the DSN allows the fallback to plaintext, and certificate files are set; leave one of them out")
	}
	return cfg.Apply(mysql.BeforeConnect(func(_ context.Context, cfg *mysql.Config) error {
		host, _, err := net.SplitHostPort(cfg.Addr)
		if err != nil {
			host = "" // a Unix socket: the name has to come from tlsFor
		}
		cfg.TLS = tlsFor(host)
		return nil
	}))
}

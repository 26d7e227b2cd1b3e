package server

import (
	"crypto/tls"
	"net/http"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
)

// What each face speaks over TLS (ALPN). A gRPC client that does not offer h2 is refused by the library.
var protocols = map[face][]string{faceGRPC: {"h2"}, faceREST: {"h2", "http/1.1"}}

// tlsOf returns the configuration of a face's listener, which asks for the certificates anew at each handshake.
//
// With a client CA, gRPC refuses who has no certificate of it during the handshake. Over REST the certificate is asked for, checked
// if it is given, and needed by the routes of payments alone (see api): probes have none, and the PSP's events are signed.
func (s *Server) tlsOf(via face) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: slices.Clone(protocols[via]),
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			c := s.cfg.TLS()
			c.NextProtos = slices.Clone(protocols[via])
			if c.ClientCAs == nil {
				return c, nil
			}
			c.ClientAuth = tls.RequireAndVerifyClientCert
			if via == faceREST {
				c.ClientAuth = tls.VerifyClientCertIfGiven
			}
			c.SessionTicketsDisabled = true // a CA that was taken away must not live on in tickets
			return c, nil
		},
	}
}

// credentials are what the gRPC face is opened with.
func (s *Server) credentials() grpc.ServerOption {
	if s.cfg.TLS == nil {
		return grpc.EmptyServerOption{}
	}
	return grpc.Creds(credentials.NewTLS(s.tlsOf(faceGRPC)))
}

// serveREST serves the REST face, over TLS if there are certificates.
func (s *Server) serveREST() error {
	if s.cfg.TLS == nil {
		return s.rest.Serve(s.restLis)
	}
	s.rest.TLSConfig = s.tlsOf(faceREST)
	return s.rest.ServeTLS(s.restLis, "", "")
}

// lacksCertificate reports whether a client certificate is needed, and the request's connection showed none.
func (s *Server) lacksCertificate(r *http.Request) bool {
	return s.clientCerts && (r.TLS == nil || len(r.TLS.VerifiedChains) == 0)
}

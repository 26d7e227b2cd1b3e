// Package server is the outside of the service: the RPCs, the REST face, who may call, and what an error is told as. It is the
// one package that knows gRPC codes and HTTP statuses.
//
// There is one way in. A REST request is checked for what only REST can get wrong (rest.go, body.go), then becomes a call of
// the same service through the same interceptors over an in-memory connection (gateway.go, grpc.go). So authentication,
// deadline, validation, fingerprint and result are the same over both faces, and a key first used over one can be retried
// over the other.
//
// Every error, wherever it comes from, is told by errors.go.
package server

package idempotency

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"

	"github.com/gowebpki/jcs"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// FingerprintVersion is the version that new keys get. A row keeps the version that it was made with, so that a later change
// of the form refuses no key that is alive.
const FingerprintVersion = 1

// Fingerprint tells one request from another under the same key.
type Fingerprint [sha256.Size]byte

// NewFingerprint hashes the RPC's full name and the RFC 8785 form of the parsed request. protojson writes 64-bit integers as
// decimal text, so 9007199254740992 and …993 differ, which they would not as the numbers of RFC 8785. Field order, white
// space and the spelling of a number are gone once the request is parsed. It fails for a version that this build does not
// know: the key was made by a newer one.
func NewFingerprint(version int, rpc string, req proto.Message) (Fingerprint, error) {
	if version != FingerprintVersion {
		return Fingerprint{}, fmt.Errorf("idempotency: fingerprint version %d is not known to this build (newest: %d)", version, FingerprintVersion)
	}
	text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(req)
	if err != nil {
		return Fingerprint{}, fmt.Errorf("idempotency: request as JSON: %w", err)
	}
	canonical, err := jcs.Transform(text)
	if err != nil {
		return Fingerprint{}, fmt.Errorf("idempotency: request in RFC 8785 form: %w", err)
	}
	name, err := json.Marshal(rpc)
	if err != nil {
		return Fingerprint{}, fmt.Errorf("idempotency: RPC name as JSON: %w", err)
	}
	return sha256.Sum256(bytes.Join([][]byte{name, canonical}, []byte{'\n'})), nil
}

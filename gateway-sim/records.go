package gatewaysim

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	bolt "go.etcd.io/bbolt"
)

// keyRecord is the verdict on an idempotency key.
type keyRecord struct {
	Result        string    `json:"result"`
	Charge        uint64    `json:"charge,omitempty"` // sequence, when charged
	Amount        int64     `json:"amount,omitempty"`
	Currency      string    `json:"currency,omitempty"`
	PaymentMethod string    `json:"payment_method,omitempty"`
	Error         *Error    `json:"error,omitempty"` // when declined or rejected
	CreatedAt     time.Time `json:"created_at"`
}

// chargeRecord is a charge and what of it does not go over the wire.
type chargeRecord struct {
	Charge
	Seq         uint64 `json:"seq"`
	Traceparent string `json:"traceparent,omitempty"`
}

// eventRecord is an event, the exact bytes that are delivered for it, and how far its delivery has come.
type eventRecord struct {
	ID          string          `json:"id"`
	Type        string          `json:"type"`
	ChargeID    string          `json:"charge_id"`
	Traceparent string          `json:"traceparent,omitempty"`
	Payload     json.RawMessage `json:"payload"`
	State       string          `json:"state"`
	Attempts    int             `json:"attempts"`
	NextAt      time.Time       `json:"next_at"`
	LastStatus  int             `json:"last_status,omitempty"`
	LastError   string          `json:"last_error,omitempty"`
}

// The states of an event's delivery.
const (
	eventQueued    = "queued"
	eventDelivered = "delivered"
	eventDropped   = "dropped"   // by a fault: never sent
	eventExhausted = "exhausted" // the schedule has ended
)

func encode(v any) ([]byte, error) { return json.Marshal(v) }

func decode[T any](b []byte) (T, error) {
	var v T
	if err := json.Unmarshal(b, &v); err != nil {
		return v, fmt.Errorf("gateway-sim: unreadable record: %w", err)
	}
	return v, nil
}

func put(tx *bolt.Tx, bucket, key []byte, v any) error {
	b, err := encode(v)
	if err != nil {
		return err
	}
	return tx.Bucket(bucket).Put(key, b)
}

// get reads a record; ok is false when there is none.
func get[T any](tx *bolt.Tx, bucket, key []byte) (v T, ok bool, err error) {
	b := tx.Bucket(bucket).Get(key)
	if b == nil {
		return v, false, nil
	}
	v, err = decode[T](b)
	return v, err == nil, err
}

func seqKey(seq uint64) []byte { return binary.BigEndian.AppendUint64(nil, seq) }

// pendingKey sorts by due time, and among equals by charge.
func pendingKey(due time.Time, seq uint64) []byte {
	return binary.BigEndian.AppendUint64(seqKey(uint64(due.UnixNano())), seq)
}

func splitPendingKey(k []byte) (due time.Time, seq uint64, err error) {
	if len(k) != 16 {
		return time.Time{}, 0, errors.New("gateway-sim: unreadable pending key")
	}
	return time.Unix(0, int64(binary.BigEndian.Uint64(k))), binary.BigEndian.Uint64(k[8:]), nil
}

// An id holds the file's id and a sequence: so it needs no index, and a new file never repeats the ids of an old one.

func (s *store) newID(prefix string, seq uint64) string {
	return prefix + s.fileID + hex.EncodeToString(seqKey(seq))
}

// parseID returns the sequence in an id of this file.
func (s *store) parseID(prefix, id string) (seq uint64, ok bool) {
	digits, ok := strings.CutPrefix(id, prefix+s.fileID)
	if !ok {
		return 0, false
	}
	b, err := hex.DecodeString(digits)
	if err != nil || len(b) != 8 || s.newID(prefix, binary.BigEndian.Uint64(b)) != id {
		return 0, false
	}
	return binary.BigEndian.Uint64(b), true
}

const (
	chargePrefix = "ch_"
	eventPrefix  = "evt_"
)

// chargeByID reads a charge by its id; ok is false when there is none.
func (s *store) chargeByID(tx *bolt.Tx, id string) (rec chargeRecord, ok bool, err error) {
	seq, ok := s.parseID(chargePrefix, id)
	if !ok {
		return rec, false, nil
	}
	return get[chargeRecord](tx, bucketCharges, seqKey(seq))
}

// mustCharge reads a charge that another record points to.
func mustCharge(tx *bolt.Tx, seq uint64) (chargeRecord, error) {
	rec, ok, err := get[chargeRecord](tx, bucketCharges, seqKey(seq))
	if err == nil && !ok {
		err = fmt.Errorf("gateway-sim: charge %d is missing from the file", seq)
	}
	return rec, err
}

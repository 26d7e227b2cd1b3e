package gatewaysim

import (
	"encoding/json"
	"net/http"

	bolt "go.etcd.io/bbolt"
)

// ledgerPage is how many records one read of the file takes. A read that lasted as long as a slow caller would keep the
// file from reusing its pages.
const ledgerPage = 500

// Charges returns every charge, in order of creation.
func (s *Sim) Charges() ([]Charge, error) {
	charges := []Charge{}
	err := forEach(s.store, bucketCharges, func(rec chargeRecord) error {
		charges = append(charges, rec.Charge)
		return nil
	})
	return charges, err
}

// getLedger streams every charge, one JSON object per line, in order of creation.
func (s *Sim) getLedger(w http.ResponseWriter, _ *http.Request) {
	stream(s, w, bucketCharges, func(rec chargeRecord) any { return rec.Charge })
}

// getEvents streams every event and the state of its delivery, one JSON object per line, in order of creation.
func (s *Sim) getEvents(w http.ResponseWriter, _ *http.Request) {
	stream(s, w, bucketEvents, func(rec eventRecord) any { return rec })
}

func stream[T any](s *Sim, w http.ResponseWriter, bucket []byte, show func(T) any) {
	w.Header().Set("Content-Type", "application/jsonl")
	lines := json.NewEncoder(w)
	err := forEach(s.store, bucket, func(rec T) error {
		if err := boundWriting(w); err != nil {
			return err
		}
		return lines.Encode(show(rec))
	})
	if err != nil {
		// The status is out; only a connection that breaks can still say that lines are missing.
		s.log.Error("a listing was cut short", "error", err)
		panic(http.ErrAbortHandler)
	}
}

// forEach calls visit for each record that a bucket of sequences holds when it begins. No read is open during a visit.
func forEach[T any](st *store, bucket []byte, visit func(T) error) error {
	for from, last := uint64(1), uint64(0); ; {
		var records []T
		err := st.view(func(tx *bolt.Tx) error {
			b := tx.Bucket(bucket)
			if last == 0 {
				last = b.Sequence()
			}
			for ; from <= last && len(records) < ledgerPage; from++ {
				rec, ok, err := get[T](tx, bucket, seqKey(from))
				if err != nil {
					return err
				}
				if ok {
					records = append(records, rec)
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		for _, rec := range records {
			if err := visit(rec); err != nil {
				return err
			}
		}
		if from > last {
			return nil
		}
	}
}

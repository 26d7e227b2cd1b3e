package gatewaysim

import (
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	bolt "go.etcd.io/bbolt"
)

// The buckets. Numbers in keys are big endian, so that bytes sort as numbers do.
var (
	bucketMeta    = []byte("meta")    // "file_id" → 8 random letters and digits
	bucketKeys    = []byte("keys")    // idempotency key → keyRecord
	bucketCharges = []byte("charges") // sequence → chargeRecord; sequences are dense, from 1
	bucketPending = []byte("pending") // due time and sequence of a charge → the status it settles to
	bucketEvents  = []byte("events")  // sequence → eventRecord
	bucketQueue   = []byte("queue")   // sequence of each event that still has to be delivered → nothing
)

var keyFileID = []byte("file_id")

// maxGroup bounds how many updates share one commit.
const maxGroup = 512

var errClosed = errors.New("gateway-sim: closed")

// store is the file. Updates are committed in groups: whatever waits when a commit ends goes into the next one, so a lone
// update waits for nobody and a crowd shares the cost.
type store struct {
	db      *bolt.DB
	fileID  string
	pending chan *update
	stop    chan struct{}
	stopped sync.WaitGroup

	// lastCreated is the creation time of the newest charge. Only the committing goroutine touches it, inside an update.
	lastCreated time.Time
}

type update struct {
	apply func(*bolt.Tx) error
	done  chan error
}

// openStore opens or creates the file at path. It waits a little for another process to let go of it.
func openStore(path string, maxSize int) (*store, error) {
	db, err := bolt.Open(path, 0o600, &bolt.Options{
		Timeout:      2 * time.Second,
		NoSync:       true,
		NoGrowSync:   true,
		FreelistType: bolt.FreelistMapType,
		MaxSize:      maxSize,
	})
	if err != nil {
		return nil, fmt.Errorf("gateway-sim: open %s: %w", path, err)
	}
	s := &store{db: db, pending: make(chan *update), stop: make(chan struct{})}
	if err := db.Update(s.initialise); err != nil {
		return nil, errors.Join(fmt.Errorf("gateway-sim: initialise %s: %w", path, err), db.Close())
	}
	s.stopped.Go(s.commitLoop)
	return s, nil
}

func (s *store) initialise(tx *bolt.Tx) error {
	for _, name := range [][]byte{bucketMeta, bucketKeys, bucketCharges, bucketPending, bucketEvents, bucketQueue} {
		if _, err := tx.CreateBucketIfNotExists(name); err != nil {
			return err
		}
	}
	meta := tx.Bucket(bucketMeta)
	if meta.Get(keyFileID) == nil {
		if err := meta.Put(keyFileID, []byte(strings.ToLower(rand.Text()[:8]))); err != nil {
			return err
		}
	}
	s.fileID = string(meta.Get(keyFileID))
	if _, v := tx.Bucket(bucketCharges).Cursor().Last(); v != nil {
		newest, err := decode[chargeRecord](v)
		if err != nil {
			return err
		}
		s.lastCreated = newest.CreatedAt.Time
	}
	return nil
}

// close lets the commit under way end and closes the file. Later updates fail with errClosed.
func (s *store) close() error {
	close(s.stop)
	s.stopped.Wait()
	return s.db.Close()
}

// view runs read on a snapshot of the file.
func (s *store) view(read func(*bolt.Tx) error) error {
	return s.db.View(read)
}

// update runs apply, once, and commits it. When it returns nil the change is in the kernel's hands; when it returns an
// error nothing of it is in the file. An apply must fail only when the file does, for its error fails all who share the
// commit; what it found out goes into variables that the caller reads after a nil.
func (s *store) update(apply func(*bolt.Tx) error) error {
	u := &update{apply: apply, done: make(chan error, 1)}
	select {
	case s.pending <- u:
		return <-u.done
	case <-s.stop:
		return errClosed
	}
}

func (s *store) commitLoop() {
	for {
		select {
		case u := <-s.pending:
			s.commit(s.gather(u))
		case <-s.stop:
			return
		}
	}
}

// gather returns first and all that wait beside it, up to maxGroup.
func (s *store) gather(first *update) []*update {
	group := []*update{first}
	for len(group) < maxGroup {
		select {
		case u := <-s.pending:
			group = append(group, u)
		default:
			return group
		}
	}
	return group
}

func (s *store) commit(group []*update) {
	err := s.db.Update(func(tx *bolt.Tx) error {
		for _, u := range group {
			if err := u.apply(tx); err != nil {
				return err
			}
		}
		return nil
	})
	for _, u := range group {
		u.done <- err
	}
}

// now returns the time for a new charge: later than that of every charge before it, to the microsecond, so that the order
// of creation, the order of sequences and the order of times are one. Only an update may call it.
func (s *store) now() Time {
	t := time.Now().UTC().Truncate(time.Microsecond)
	if !t.After(s.lastCreated) {
		t = s.lastCreated.Add(time.Microsecond)
	}
	s.lastCreated = t
	return Time{t}
}

package torture

import (
	"errors"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"

	"chargeonce/api/payments/v1/client"
)

// door is one way in: a server's face, with the credential of one user.
type door struct {
	server, face string
	client       *client.Client
}

// doors are all ways in, by user.
type doors struct {
	byUser map[int64][]door
	conns  []*grpc.ClientConn
}

// openDoors makes a client for every user, server and face. Each makes one try a call: the buyers decide what comes next.
func openDoors(s *site) (*doors, error) {
	d := &doors{byUser: map[int64][]door{}}
	for _, srv := range s.servers {
		conn, err := grpc.NewClient(srv.rig.GRPC, grpc.WithTransportCredentials(insecure.NewCredentials()), // the loopback interface
			grpc.WithDisableRetry(), grpc.WithDisableServiceConfig(),
			// A server that was killed is back in a second; gRPC's own patience is of minutes.
			grpc.WithConnectParams(grpc.ConnectParams{
				Backoff: backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.5, Jitter: 0.2, MaxDelay: 500 * time.Millisecond}, MinConnectTimeout: time.Second,
			}))
		if err != nil {
			return nil, errors.Join(err, d.close())
		}
		d.conns = append(d.conns, conn)
		for user, key := range s.users {
			for face, cfg := range map[string]client.Config{"gRPC": {Conn: conn}, "REST": {BaseURL: srv.rig.URL()}} {
				cfg.APIKey, cfg.MaxTries, cfg.TryTimeout = key, 1, 5*time.Second
				c, err := client.New(cfg)
				if err != nil {
					return nil, errors.Join(err, d.close())
				}
				d.byUser[user] = append(d.byUser[user], door{server: srv.member.name, face: face, client: c})
			}
		}
	}
	return d, nil
}

// any picks one of a user's doors.
func (d *doors) any(user int64, dice func(below int) int) door {
	all := d.byUser[user]
	return all[dice(len(all))]
}

// close ends all connections.
func (d *doors) close() error {
	var errs []error
	for _, all := range d.byUser {
		for _, one := range all {
			errs = append(errs, one.client.Close())
		}
	}
	for _, conn := range d.conns {
		errs = append(errs, conn.Close())
	}
	return errors.Join(errs...)
}

package mysql

// Cut takes the database away: every connection is cut, and a new one is closed as soon as it is made, until [FaultProxy.Mend].
func (p *FaultProxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = true
	for c := range p.conns {
		closeConn(c)
	}
}

// Mend gives the database back.
func (p *FaultProxy) Mend() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = false
}

func (p *FaultProxy) isCut() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cut
}

package batch

// Open hands use what c compressed to src, and no more than limit bytes of it:
// for bodies that are no batch, in the formats that batches have. The bytes are
// use's until it returns. ErrTooLarge, ErrMalformed, or what use returned.
func Open(c Codec, src []byte, limit int, use func(plain []byte) error) error {
	p, err := decompress(c, src, limit)
	if err != nil {
		return err
	}
	defer p.release()
	return use(p.b)
}

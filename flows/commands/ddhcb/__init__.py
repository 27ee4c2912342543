"""`das ddhcb`: the Detailed DHC-B, households by type and tenure."""

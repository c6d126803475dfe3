"""What every room uses: text, quantities, own threads, files and locks, what processes leave."""

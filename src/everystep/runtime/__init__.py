"""What long work needs: messages, memory, compiled programs kept on disk."""

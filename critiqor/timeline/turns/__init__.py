"""Attribution of time: turns and start-ups split into their parts."""

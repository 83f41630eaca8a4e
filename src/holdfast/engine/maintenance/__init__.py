"""Work that one worker does for all: graphs, webhooks, retention."""

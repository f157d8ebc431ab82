"""State that is kept elsewhere - on disk, in a store that the user brings along - with a cache of it in memory."""

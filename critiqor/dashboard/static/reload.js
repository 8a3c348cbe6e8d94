// Loads a page again that waits for the index of its run.
setTimeout(() => location.reload(), 2000);

"""What is measured around `adapt`: time, passes, memory, accuracy, and the machine it happened on."""

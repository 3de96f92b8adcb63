"""What is asked of trained models and of records once training is over."""

"""`das tda tune`: shares as they are typed, questions in words, and the tables of predicted errors."""

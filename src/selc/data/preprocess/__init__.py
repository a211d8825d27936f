"""How columns, texts and labels become numbers; what was learnt for that is plain data, kept with the run."""

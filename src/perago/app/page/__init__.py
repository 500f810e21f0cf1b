"""The page of `perago dev` and `perago watch`: what it shows, how it is drawn and served."""

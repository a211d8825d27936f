"""Files of images into pixels: decoded once into a cache where they fit, else in each epoch."""

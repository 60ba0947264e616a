"""Settings of the process as changes: OpenMP wait, threads of cv2."""

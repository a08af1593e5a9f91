"""What jobs are together: graphs of jobs that are written as one."""

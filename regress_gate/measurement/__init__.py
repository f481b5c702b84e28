"""From the times of requests to the statistics of a trial. Used by the load client and by every import alike."""

"""The exception of a cluster that could not do its work, free of imports."""


class ClusterError(RuntimeError):
    """The cluster could not finish: a block killed its workers, or the scheduler was lost.

    The message is one line: what happened, to which rows where known, what to do.
    """

"""The report as a folder of files that open without a server: pages, traces, plots and tables."""

from stages.report.site.write import write_site

__all__ = ["write_site"]

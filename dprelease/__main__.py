"""`python -m dprelease`: the command line, also where the installed command is not on the path."""

from dprelease.cli import main

if __name__ == "__main__":
    main()

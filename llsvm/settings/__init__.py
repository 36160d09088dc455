"""Options of training: what each may be, and what goes with what. Imports nothing heavy.

``settings`` puts the options of ``data``, ``objective`` and ``solver`` together and checks them; ``option`` says
what a declaration is, what values are and what options are called elsewhere, ``methods`` what each method takes;
``python`` makes functions take options. Everybody may read Settings; only the command line, ``python``, estimators
and tools/signatures.py look at the declarations.
"""

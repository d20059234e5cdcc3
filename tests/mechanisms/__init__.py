"""Tests of dprelease.mechanisms."""
